"""The charts of the report: what each holds, and the marks and axes that they share."""
