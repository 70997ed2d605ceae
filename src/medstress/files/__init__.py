"""Reading and writing files safely, and finding functions and modules of the user's."""
