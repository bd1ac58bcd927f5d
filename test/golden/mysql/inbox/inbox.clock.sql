select cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char) as now
