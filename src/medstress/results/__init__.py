"""What is found, ready to be shown: measures, tables, and renderers that know no measure."""
