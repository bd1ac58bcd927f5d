(?, ?, ?, utc_timestamp(6), utc_timestamp(6) + interval ? microsecond, ?)
