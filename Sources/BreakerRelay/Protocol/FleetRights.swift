/// What a relay has to be allowed on the server.
package enum FleetRights {
  /// One of each command that a relay and its scripts run, on each kind of key that they run it on.
  ///
  /// They would do harm, so they are only ever queued in a transaction that is not run: a server
  /// refuses to queue a command that its user may not run, or that it cannot run now.
  package static func commands(_ keys: FleetKeys, host name: String) -> [[String]] {
    let host = keys.host(name)
    return [
      ["INFO", "server"], ["ROLE"], ["TIME"], ["SCRIPT", "LOAD", "return 1"],
      ["EVALSHA", String(repeating: "0", count: 40), "1", keys.count],
      ["GET", keys.epoch], ["GET", keys.count], ["SET", keys.epoch, ""], ["SET", keys.count, ""],
      ["XADD", keys.stream, "*", "v", "1"], ["XREAD", "STREAMS", keys.stream, "0-0"],
      ["XREVRANGE", keys.stream, "+", "-"],
      ["HGET", keys.commands, ""], ["HSET", keys.commands, "", ""], ["HSCAN", keys.commands, "0"],
      ["HGET", keys.evidence, ""], ["HSET", keys.evidence, "", ""], ["HDEL", keys.evidence, ""],
      ["HSCAN", keys.evidence, "0"],
      ["HGET", host, ""], ["HSET", host, "", ""], ["HDEL", host, ""], ["HGETALL", host],
      ["DEL", host], ["EXPIRE", host, "1"],
      ["ZADD", keys.hosts, "0", ""], ["ZREM", keys.hosts, ""], ["ZSCORE", keys.hosts, ""],
      ["ZRANGE", keys.hosts, "0", "0"], ["ZCOUNT", keys.hosts, "0", "0"],
      ["ZREMRANGEBYSCORE", keys.hosts, "0", "0"],
    ]
  }
}
