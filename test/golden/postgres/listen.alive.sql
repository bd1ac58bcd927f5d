select 1 as listening
