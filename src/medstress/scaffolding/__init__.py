"""`medstress new`: a first package with an attack, a back end or a data set of one's own."""
