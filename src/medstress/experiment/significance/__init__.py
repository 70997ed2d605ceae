"""`medstress test`: does an attack's edit work better than any other edit of its kind would?"""
