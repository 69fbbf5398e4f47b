@_spi(Relay) internal import SharedBreaker

/// How often hosts beat, and when a host counts as gone.
package enum BeatPace {
  /// The shortest time between the beats of a host, in milliseconds.
  private static let shortestInterval: Int64 = 1_000

  /// For how many milliseconds a host may always be silent before it counts as gone.
  static let shortestSilence: Int64 = 15_000

  /// The time between the beats of a host in milliseconds, which grows with the fleet, so that the
  /// server's load does not.
  ///
  /// Any writer to the server can feign hosts, so it does not grow forever.
  package static func interval(ofFleet hosts: Int) -> Int64 {
    min(max(shortestInterval, Int64(hosts)), 10_000)
  }

  /// For how many milliseconds a host of a fleet may be silent before it counts as gone.
  package static func silence(ofFleet hosts: Int) -> Int64 {
    max(shortestSilence, 3 * interval(ofFleet: hosts))
  }
}

/// Showing that this host is alive.
extension FleetServer {
  /// The server's answer to a beat.
  struct Beat {
    var now: Int64
    var epoch: String
    var number: Int64
    var hostsSeen: Int
  }

  /// Shows that this host is alive.
  ///
  /// In a fleet with a key, a name is taken only if a relay has signed it lately.
  ///
  /// - Throws: `RelayTrouble.nameTaken` if another relay works under its name.
  func beat(
    lineage: String, _ description: HostText, sentAt: Int64, isKnown: Bool, silence: Int64
  ) throws(RelayTrouble) -> Beat {
    let parts = try beat(
      lineage, description, sentAt: sentAt, as: isKnown ? "1" : "0", silence: silence)
    guard parts.first?.text == "taken" else { return try Self.beat(parts) }
    guard let complaint = complaint(aboutHolder: parts, silence: silence) else {
      throw .nameTaken(options.host)
    }
    context.refuse(complaint)
    return try Self.beat(
      try beat(lineage, description, sentAt: sentAt, as: "2", silence: silence))
  }

  private func beat(
    _ lineage: String, _ description: HostText, sentAt: Int64, as standing: String, silence: Int64
  ) throws(RelayTrouble) -> [RedisReply] {
    var words = [
      "EVALSHA", beatScript, "5", keys.count, keys.epoch, keys.hosts,
      keys.host(options.host), keys.stream, options.host, signed(description.plain), lineage,
      context.run,
      String(silence), Self.newEpoch(), standing, String(sentAt),
    ]
    if let read = description.position {
      words += [read.epoch, String(read.number), read.entry, signed(description.text)]
    }
    let answer = try ask([words])[0]
    guard let parts = answer.elements else { throw .unexpected("a beat") }
    return parts
  }

  /// Reads the answer to a beat.
  private static func beat(_ parts: [RedisReply]) throws(RelayTrouble) -> Beat {
    guard parts.count == 4, let now = parts[0].number(upTo: ServerClock.latest),
      let epoch = parts[1].text, let hosts = parts[3].number(upTo: 1_000_000_000)
    else { throw .unexpected("a beat") }
    let number = parts[2].number(upTo: FleetCommand.highestStamp - 1) ?? 0
    return Beat(now: now, epoch: epoch, number: number, hostsSeen: max(1, Int(hosts)))
  }

  private static func newEpoch() -> String {
    String(UInt64.random(in: .min ... .max), radix: 16)
  }

  /// Why the entry under this host's name is not a live claim to it; nil if it is one.
  private func complaint(
    aboutHolder parts: [RedisReply], silence: Int64
  ) -> Refusal? {
    let authority = context.authority
    guard authority.isOn, parts.count == 4, let now = parts[3].number(upTo: ServerClock.latest)
    else { return nil }
    let description = parts[2].text.flatMap {
      HostDescription($0, of: options.host, believing: authority)
    }
    if let description, description.isAtWork(at: now, within: silence, to: authority) { return nil }
    let why =
      switch description?.proof {
      case .unsigned?: "is not signed with a key of the fleet"
      case .proven?: "is an old one that somebody has put back"
      case .unchecked?, .wrong?, nil: "is signed with another key than this host has, or damaged"
      }
    return Refusal(
      description?.proof == .unsigned ? .unsigned : .forged, host: options.host,
      "what stands on the server in the place of this host \(why), so it is replaced")
  }
}
