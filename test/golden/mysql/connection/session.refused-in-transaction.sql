set @@transaction_isolation = @@session.transaction_isolation
