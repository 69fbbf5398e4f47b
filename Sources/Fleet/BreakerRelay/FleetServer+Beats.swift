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
    _ mark: HostMark, since began: ContinuousClock.Instant, silence: Int64
  ) throws(RelayTrouble) -> Beat {
    let text = signed(mark)
    for _ in 0..<8 {
      let words = [
        "EVALSHA", beatScript, "4", keys.count, keys.epoch, keys.hosts, keys.host(options.host),
        options.host, text, markDigest, Self.newEpoch(), String(mark.sentAt), String(silence),
      ]
      guard let parts = try ask([words])[0].elements else { throw .unexpected("a beat") }
      guard parts.first?.text == "other" else {
        markDigest = ServerDigest.text(of: text)
        return try Self.beat(parts)
      }
      guard parts.count == 4, let now = parts[3].number(upTo: ServerClock.latest) else {
        throw .unexpected("a beat")
      }
      let age = DurationText.milliseconds(.now - began)
      try judge(parts[2], of: mark, since: now - age, at: now, silence)
      markDigest = parts[1].text ?? ""
    }
    throw .redis(RedisError("another client keeps writing in the place of this host's mark"))
  }

  /// Judges what stands in the place of this host's mark: what is not proven is absent, and so is what an
  /// earlier run of this relay has left.
  private func judge(
    _ found: RedisReply, of mark: HostMark, since began: Int64, at now: Int64, _ silence: Int64
  ) throws(RelayTrouble) {
    if case .bytes(let bytes) = found, bytes.isEmpty { return }
    do throws(Refusal) {
      let other = try HostMark(
        found.text ?? "", of: options.host, believing: context.authority)
      let isEarlier = other.lineage == mark.lineage && other.sentAt <= began
      guard other.run != mark.run, !other.hasLeft, !isEarlier,
        other.isRecent(at: now, within: silence)
      else { return }
    } catch {
      guard context.authority.isOn else { return }
      context.refuse(
        Refusal(
          error.kind == .unsigned ? .unsigned : .forged, host: options.host,
          "what stands on the server in the place of this host does not count, so it is replaced:"
            + " \(error.description)"))
      return
    }
    throw .nameTaken(options.host)
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
}
