import SharedBreaker
import TestSupport

/// An attacker that can write to the server of a fleet, and has no key.
///
/// It writes commands and evidence that are not signed, or signed wrongly, confirms commands that no
/// host has carried out, and repeats the messages of relays in any order.
struct Forger {
  private let server: RedisServer
  private var random: SeededRandom
  private var count = 0

  /// Every forgery has one of these in it, and nothing that a host does because of it may have.
  static let marks = ["forged", "max-failures=777"]

  init(_ server: RedisServer, seed: UInt64) {
    self.server = server
    random = SeededRandom(seed: seed)
  }

  /// Appends an entry with the next number, as a relay does.
  private static let append = """
    local n = redis.call('INCR', KEYS[2])
    return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
    """

  /// Appends the fields of up to thirty entries of the stream again, in an order drawn from a seed.
  private static let replay = """
    math.randomseed(tonumber(ARGV[1]))
    local entries = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 500)
    for _ = 1, math.min(30, #entries) do
      local fields = entries[math.random(#entries)][2]
      local words = {'n', redis.call('INCR', KEYS[2])}
      for place = 1, #fields, 2 do
        if fields[place] ~= 'n' then
          words[#words + 1] = fields[place]
          words[#words + 1] = fields[place + 1]
        end
      end
      redis.call('XADD', KEYS[1], '*', unpack(words))
    end
    return #entries
    """

  /// Puts back what a field of a hash was before, or takes it away.
  private static let turnBack = """
    math.randomseed(tonumber(ARGV[1]))
    local fields = redis.call('HKEYS', KEYS[1])
    if #fields == 0 then return 0 end
    table.sort(fields)
    local field = fields[math.random(#fields)]
    local kept = redis.call('HGET', KEYS[2], field)
    redis.call('HSET', KEYS[2], field, redis.call('HGET', KEYS[1], field))
    if kept then redis.call('HSET', KEYS[1], field, kept) else redis.call('HDEL', KEYS[1], field) end
    return 1
    """

  private static func key(_ name: String) -> String { "sb:{torture}:\(name)" }

  private func eval(_ script: String, _ keys: [String], _ words: [String]) throws {
    let keys = keys.map(Self.key)
    _ = try server.command(words: ["EVAL", script, "\(keys.count)"] + keys + words)
  }

  private var now: Int64 { StoreClock.system.wallTime.millisecondsSince1970 }

  private mutating func forgedCommand() -> String {
    count += 1
    let why = #","reason":"forged-\#(count)","by":"root","user":"root""#
    return random.pick([
      #"{"action":"force","mode":"forced_open"\#(why)}"#, #"{"action":"reset"\#(why)}"#,
      #"{"action":"trip","for_ms":5000\#(why)}"#,
      #"{"action":"policy","set":"max-failures=777","unset":""\#(why)}"#,
    ])
  }

  /// Does one evil thing, in the name of one of these hosts or of a host that does not exist.
  mutating func act(against hosts: [String]) throws {
    let host = random.pick(hosts + ["nobody"])
    let breaker = random.pick(FleetPlan.breakers)
    let stamp = now + Int64(random.number(-3_600_000...80_000_000))
    let seal = "12345678:" + String(repeating: "0", count: 64)
    let signed = random.number(0...1) == 0 ? ["t", "\(now)", "m", seal] : []
    switch random.number(0...6) {
    case 0, 1:
      let command = forgedCommand()
      try eval(
        Self.append, ["stream", "count"],
        [
          "v", "1", "k", "command", "h", host, "l", "1", "b", breaker, "s", "\(stamp)", "c",
          command,
        ] + signed)
      let field = "\(breaker)\n" + random.pick(["mode", "state", "policy:max-failures"])
      try server.command(words: [
        "HSET", Self.key("commands"), field, "\(stamp) \(host) \(now) \(command)",
      ])
    case 2:
      let kind = random.pick(["open", "recovered", "closed"])
      try eval(
        Self.append, ["stream", "count"],
        ["v", "1", "k", kind, "h", host, "l", "1", "b", breaker, "g", "9", "r", "60000"] + signed)
      try server.command(words: [
        "HSET", Self.key("evidence"), "\(breaker)\n\(host)", "1 9 \(now + 60_000)",
      ])
    case 3:
      try server.command(words: [
        "HSET", Self.key("evidence"), "\(breaker)\n\(host)",
        "1 9 \(now + 60_000) \(now) 60000 \(seal)",
      ])
    case 4:
      // As if the host had dealt with everything.
      let text = #"{"lineage":"1","run":"1","heard":"0","sent":\#(now),"seal":"\#(seal)"}"#
      try server.command(words: ["HSET", Self.key("host:\(host)"), "", text])
    case 5: try eval(Self.replay, ["stream", "count"], ["\(random.number(1...9_999))"])
    default:
      let hash = random.pick(["commands", "evidence"])
      try eval(Self.turnBack, [hash, "\(hash):kept"], ["\(random.number(1...9_999))"])
    }
  }
}
