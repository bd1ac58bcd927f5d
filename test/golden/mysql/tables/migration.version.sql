select cast(version() as char) as version
