SET /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ = 'READ-COMMITTED', @txbox_idle = @@session.wait_timeout, session wait_timeout = cast(least(@@session.wait_timeout, 60) as unsigned)
