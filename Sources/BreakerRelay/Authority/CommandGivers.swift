package import ProgramKit
package import SharedBreaker
internal import Synchronization

/// The users who have told this relay over its socket what they are about to command.
///
/// The kernel has named them, so a command that is found in the store later and says just that is
/// theirs. Whoever announces the command of somebody else only lays it at their own door.
package final class CommandGivers: Sendable {
  private struct Announcement {
    var user: String
    var giving: FleetGiving

    /// How often each breaker is named.
    var names: [String: Int]
    var at: ContinuousClock.Instant

    func has(_ command: FleetCommand) -> Bool {
      names[command.name] != nil && giving.announces(command)
    }
  }

  package init() {}

  private let announcements = Mutex<[Announcement]>([])

  /// How many names of breakers are remembered of one user, and of how many users.
  private static let roomForNames = 100_000
  private static let roomForUsers = 16

  /// A program that has not given its command by then has failed, or was stopped for too long.
  private static let patience = Duration.seconds(86_400)

  /// Notes what a user is about to command.
  ///
  /// What there is no room for is given all the same, and nobody has verified it.
  package func note(_ giving: FleetGiving, by user: String, at now: ContinuousClock.Instant = .now)
  {
    let user = FleetGiver(said: "", verifiedUser: user, host: "").verifiedUser ?? user
    let names = Dictionary(giving.names.map { ($0, 1) }, uniquingKeysWith: +)
    var giving = giving
    giving.names = []
    let announcement = Announcement(user: user, giving: giving, names: names, at: now)
    announcements.withLock { all in
      all.removeAll { $0.at + Self.patience < now }
      let known = all.filter { $0.user == user }.reduce(0) { $0 + $1.names.count }
      let users = Set(all.map(\.user)).union([user])
      guard known + names.count <= Self.roomForNames, users.count <= Self.roomForUsers else {
        return
      }
      all.append(announcement)
    }
  }

  /// The user who has announced a command; nil if nobody has.
  package func user(of command: FleetCommand) -> String? {
    announcements.withLock { all in all.first { $0.has(command) }?.user }
  }

  /// Notes that a command was told, so that the same one needs a new announcement.
  package func told(_ command: FleetCommand) {
    announcements.withLock { all in
      let place = all.firstIndex { $0.has(command) }
      guard let place, let count = all[place].names[command.name] else { return }
      all[place].names[command.name] = count > 1 ? count - 1 : nil
      if all[place].names.isEmpty { all.remove(at: place) }
    }
  }
}
