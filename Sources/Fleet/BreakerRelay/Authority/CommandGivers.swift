@_spi(Relay) package import ProgramKit
@_spi(Relay) package import SharedBreaker
internal import Synchronization

/// The users who have announced commands to this relay over its socket.
///
/// The kernel has named them, so a command that is given just after its announcement counts as
/// theirs. If one user announces a command and another one gives it, the first is named.
package final class CommandGivers: Sendable {
  private struct Announcement {
    var user: String
    var giving: FleetGiving

    /// How often each breaker is named.
    var names: [String: Int]
    var size: Int
    var at: ContinuousClock.Instant

    func has(_ command: FleetCommand, givenAt instant: ContinuousClock.Instant) -> Bool {
      at <= instant && instant <= at + CommandGivers.longestPause
        && names[command.name] != nil && giving.announces(command)
    }
  }

  package init() {}

  private let announcements = Mutex<[Announcement]>([])

  /// How many bytes are remembered of one user.
  package static let roomForUser = 16 << 20

  /// How many users are remembered.
  package static let roomForUsers = 16

  /// How much later than it was announced a command may be given.
  ///
  /// A program can fail after it has announced a command. Without this limit, anyone who can write to the
  /// store could give the same command later in the name of its user.
  package static let longestPause = Duration.seconds(600)

  /// How long an announcement is remembered while the server takes no commands.
  package static let patience = Duration.seconds(86_400)

  /// Notes a command that a user announces.
  ///
  /// If there is no room for an announcement, the command goes out without a verified user.
  package func note(_ giving: FleetGiving, by user: String, at now: ContinuousClock.Instant = .now)
  {
    guard !giving.names.isEmpty else { return }
    // No longer than stores keep it: otherwise the signature would cover another text than they have.
    let user = FleetGiver(said: "", verifiedUser: user, host: "").verifiedUser ?? user
    let names = Dictionary(giving.names.map { ($0, 1) }, uniquingKeysWith: +)
    var giving = giving
    giving.names = []
    // The constants stand for the memory of the containers.
    let size =
      names.keys.reduce(256 + giving.deed.utf8.count + (giving.reason?.utf8.count ?? 0)) {
        $0 + $1.utf8.count + 64
      }
    let announcement = Announcement(
      user: user, giving: giving, names: names, size: size, at: now)
    announcements.withLock { all in
      all.removeAll { $0.at + Self.patience < now }
      let taken = all.filter { $0.user == user }.reduce(0) { $0 + $1.size }
      let users = Set(all.map(\.user)).union([user])
      guard taken + size <= Self.roomForUser, users.count <= Self.roomForUsers else { return }
      all.append(announcement)
    }
  }

  /// The user who has announced a command, whose age is right at `now`; nil if it was not
  /// announced.
  package func user(
    of command: FleetCommand, at now: ContinuousClock.Instant = .now
  ) -> String? {
    announcements.withLock { all in
      all.first { $0.has(command, givenAt: now - command.age) }?.user
    }
  }

  /// Notes that a command was told to the fleet, so that giving the same one again needs a new announcement.
  package func told(_ command: FleetCommand, at now: ContinuousClock.Instant = .now) {
    announcements.withLock { all in
      let place = all.firstIndex { $0.has(command, givenAt: now - command.age) }
      guard let place, let count = all[place].names[command.name] else { return }
      all[place].names[command.name] = count > 1 ? count - 1 : nil
      if all[place].names.isEmpty { all.remove(at: place) }
    }
  }
}
