internal import Glibc
internal import ProgramKit
internal import SharedBreaker
internal import Synchronization

/// Notices in a thread of its own that the sentinels name another primary than the one in use.
///
/// A failover usually ends the connection to the old primary. It does not if the old primary was only
/// cut off from the sentinels: what a relay told it would be lost.
final class SentinelWatch: Sendable {
  /// Raised when a session should begin again with the favourite.
  let hasMoved: WakePipe

  private struct State: Sendable {
    /// The primary of the session that is under way.
    var current: Sentinels.Member?

    /// The primary that most sentinels named when they last named another one than the session's.
    var favourite: Sentinels.Member?
  }

  private let state = Mutex(State())
  private let sentinels: Sentinels
  private let address: RedisAddress
  private let stop: WakePipe
  private let report: @Sendable (String) -> Void

  /// How often the sentinels are asked.
  private static let interval = Duration.seconds(1)

  /// How long a sentinel that did not answer is left alone.
  private static let pause = Duration.seconds(5)

  /// Prepares the watch of an address; nil if it names no sentinels, or no descriptor is left.
  ///
  /// - Parameters:
  ///   - address: The address.
  ///   - stop: Raised when the watch has to end.
  ///   - report: Gets a line when no sentinel answers any more, or when one does again.
  init?(
    _ address: RedisAddress, until stop: WakePipe, report: @escaping @Sendable (String) -> Void
  ) {
    guard case .sentinels(let sentinels) = address.place, let hasMoved = WakePipe() else {
      return nil
    }
    self.sentinels = sentinels
    self.address = address
    self.hasMoved = hasMoved
    self.stop = stop
    self.report = report
  }

  /// The primary to try before the sentinels are asked; only once, because they may name yet
  /// another one by the next time.
  func takeFavourite() -> Sentinels.Member? {
    state.withLock { state in
      defer { state.favourite = nil }
      return state.favourite
    }
  }

  /// The primary that the relay uses; nil if it has none.
  var current: Sentinels.Member? { state.withLock { $0.current } }

  /// Notes which primary a session uses; nil when it has ended.
  func use(_ server: RedisAddress?) {
    let member = server.flatMap { server in
      if case .tcp(let host, let port) = server.place {
        return Sentinels.Member(host: host, port: port)
      }
      return nil
    }
    state.withLock { $0.current = member }
    hasMoved.empty()
  }

  /// Asks the sentinels until the watch is stopped.
  func run() {
    var contacts = sentinels.members.map { Contact(member: $0) }
    var hasSaid = false
    while !isStopped(within: Self.interval) {
      guard let current else { continue }
      var named: [Sentinels.Member] = []
      for index in contacts.indices where !stop.isRaised {
        if let primary = contacts[index].ask(sentinels, tls: address.tls) { named.append(primary) }
      }
      // Sentinels that are left alone for a moment count as silent.
      if named.isEmpty != hasSaid, !stop.isRaised {
        hasSaid = named.isEmpty
        report(
          named.isEmpty
            ? "no sentinel of \(address) answers, so a failover could stay unnoticed:"
              + " \(contacts.compactMap(\.problem).first?.description ?? "check them")"
            : "the sentinels of \(address) answer again")
      }
      guard let better = Sentinels.better(than: current, named), isPrimary(better) else { continue }
      state.withLock { state in
        guard state.current == current else { return }
        state.favourite = better
        hasMoved.wake()
      }
    }
  }

  /// Whether a server can be used; if not, the session that lasts is better than none.
  private func isPrimary(_ member: Sentinels.Member) -> Bool {
    do throws(RedisError) {
      _ = try Sentinels.connect(to: member, for: address, patience: Sentinels.patience)
      return true
    } catch {
      return false
    }
  }

  private func isStopped(within time: Duration) -> Bool {
    _ = RedisTransport.wait(for: POLLIN, of: stop.reading, by: .now + time)
    return stop.isRaised
  }

  /// A sentinel and the connection to it.
  private struct Contact {
    let member: Sentinels.Member
    var connection: RedisConnection?
    var problem: RedisError?
    var isDueAt = ContinuousClock.now

    /// The primary that the sentinel names; nil if it does not answer.
    mutating func ask(_ sentinels: Sentinels, tls: RedisTLS?) -> Sentinels.Member? {
      guard connection != nil || isDueAt <= .now else { return nil }
      do throws(RedisError) {
        let known: RedisConnection
        if let connection {
          known = connection
        } else {
          known = try sentinels.connect(to: member, tls: tls)
        }
        connection = known
        let primary = try sentinels.primary(namedBy: member, over: known)
        problem = nil
        return primary
      } catch {
        connection = nil
        problem = error
        isDueAt = .now + SentinelWatch.pause
        return nil
      }
    }
  }
}
