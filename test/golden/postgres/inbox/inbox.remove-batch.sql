delete from "txbox".inbox
where consumer = $1 and key = any($2::text[])
