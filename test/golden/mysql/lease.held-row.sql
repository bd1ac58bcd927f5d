(name = ? and term = ?)
