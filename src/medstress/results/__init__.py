"""Results ready to show: measures, tables, and renderers that know no measure."""
