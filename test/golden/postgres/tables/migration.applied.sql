select number::text as number
from "txbox".migrations
