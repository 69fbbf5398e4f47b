@_spi(Relay) internal import SharedBreaker

/// The hosts of a fleet: those that the server names, and those that this relay remembers.
///
/// The server's list is not signed, and is lost with its data. So a host that has once shown itself is
/// remembered until it says farewell, or for a day.
struct HostRoll {
  struct Host {
    var name: String

    /// Its own words; nil if they do not count.
    var mark: HostMark?

    /// Whether commands wait for it.
    var counts: Bool

    /// How long ago it was last heard from, in milliseconds.
    var silence: Int64

    /// The digest of what stands in the place of its mark.
    var digest: String
  }

  let now: Int64
  private(set) var hosts: [Host] = []

  /// How many hosts are asked about at once.
  static let atOnce = 500

  /// For how many milliseconds a host is remembered that has not left in order.
  private static let memory: Int64 = 86_400_000

  /// For how many milliseconds a host may be silent.
  var patience: Int64 { BeatPace.silence(ofFleet: hosts.count) }

  /// Reads the hosts.
  ///
  /// - Parameters:
  ///   - context: The relay, which remembers the hosts.
  ///   - leavesOutKnown: Whether to read only the marks that may change what is remembered.
  ///   - ask: Asks the server.
  /// - Throws: If the server cannot be asked.
  init<Failure>(
    _ context: RelayContext, leavingOutKnown leavesOutKnown: Bool = false,
    ask: ([[String]]) throws(Failure) -> [RedisReply]
  ) throws(Failure) {
    let keys = context.keys
    let answers = try ask([["TIME"], ["ZRANGE", keys.hosts, "0", "-1", "WITHSCORES"]])
    let now = ServerClock.milliseconds(answers[0]) ?? 0
    self.now = now
    var seen: [String: Int64] = [:]
    for (field, score) in answers[1].pairs ?? [] {
      guard let name = field.text, FleetName.complaint(about: name) == nil,
        let at = score.text.flatMap({ Double($0) }), at.magnitude < 1e15
      else { continue }
      seen[name] = min(now, Int64(at))
    }
    var known = context.course.now.hosts.filter { $0.value > now - Self.memory }
    for (name, at) in seen { if let time = known[name] { known[name] = max(time, at) } }
    let isLeftOut = { name in leavesOutKnown && known[name] != nil && seen[name] != nil }
    let names = Set(seen.keys).union(known.keys).sorted().filter { !isLeftOut($0) }
    for start in stride(from: 0, to: names.count, by: Self.atOnce) {
      let chunk = names[start..<min(start + Self.atOnce, names.count)]
      let answers = try ask(chunk.map { ["HGET", keys.host($0), FleetKeys.ownField] })
      for (name, answer) in zip(chunk, answers) {
        let mark = answer.text.flatMap {
          try? HostMark($0, of: name, believing: context.authority)
        }
        if let mark, mark.hasLeft {
          if mark.sentAt >= known[name] ?? 0 { known[name] = nil }
          if seen[name] == nil { continue }
        } else if let mark, known.count < FleetView.room {
          known[name] = max(known[name] ?? 0, min(now, mark.sentAt))
        }
        let last = max(known[name] ?? 0, context.authority.isOn ? 0 : seen[name] ?? 0)
        hosts.append(
          Host(
            name: name, mark: mark, counts: known[name] != nil || !context.authority.isOn,
            silence: max(0, now - (last == 0 ? seen[name] ?? 0 : last)),
            digest: answer.text.map { ServerDigest.text(of: $0) } ?? ""))
      }
    }
    let remembered = known
    context.course.change { $0.hosts = remembered }
  }
}
