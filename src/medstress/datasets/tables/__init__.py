"""Files of rows, whatever their format: CSV, TSV, Excel, JSON, parquet, folders of `datasets`."""
