select cast(2 /*M! * 0 + @@in_transaction */ as char) as answer
