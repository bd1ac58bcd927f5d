set session autocommit = 0
