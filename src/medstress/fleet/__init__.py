"""One run on many machines: shards are leased to workers, and their ledgers travel home.

A driver makes workers (`ray_workers` is the only module that knows Ray), and passes what they ask
to a keeper, a process of its own that holds leases, grants and ledgers. Workers run shards as
`medstress run --shard` does; at the end the driver merges them. What travels is JSON, and ledgers
as SQLite writes them.
"""
