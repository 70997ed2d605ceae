"""`medstress test`: is a success more than what any change of its kind would bring?"""
