select ? as type, ? as consumer
