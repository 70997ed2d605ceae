"""The page of one or several runs, its pictures and its cases."""
