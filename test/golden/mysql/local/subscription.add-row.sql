(utc_timestamp(6), ?, ?)
