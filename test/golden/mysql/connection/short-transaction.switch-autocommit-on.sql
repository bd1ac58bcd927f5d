set session autocommit = 1
