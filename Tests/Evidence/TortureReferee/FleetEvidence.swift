/// What a phase of a fleet left behind, once nothing was under way any more.
package struct FleetEvidence: Sendable {
  /// How many other hosts must have a breaker open before a host suspects its own.
  package var quorum: Int

  /// How old an opening may be that a suspicion was still about, in milliseconds.
  package var longestOpening: Int64
  package var hosts: [Host] = []
  package var commands: [Command] = []
  package var confirmations: [Confirmation] = []

  /// Texts that only somebody without a key has written.
  package var forgeries: [String] = []

  package init(quorum: Int, longestOpening: Int64) {
    self.quorum = quorum
    self.longestOpening = longestOpening
  }

  /// A command with the scope of the fleet; its text is the reason that it was given.
  package struct Command: Sendable {
    package enum Ending: Sendable { case done, refused, unknown }

    package var text: String
    package var host: String
    package var ending: Ending

    package init(_ text: String, on host: String, _ ending: Ending) {
      self.text = text
      self.host = host
      self.ending = ending
    }
  }

  /// What one host says of another one, and whether it was so.
  package struct Confirmation: Sendable {
    package var command: String
    package var host: String
    package var listener: String

    /// Whether the host followed the command then, or a later one.
    package var isTrue: Bool

    package init(of command: String, by host: String, to listener: String, isTrue: Bool) {
      self.command = command
      self.host = host
      self.listener = listener
      self.isTrue = isTrue
    }
  }

  package struct Host: Sendable {
    package var name: String
    package var events: [Event] = []

    /// The latest command about each aspect of each breaker, as lines.
    package var registers: Set<String> = []

    /// How each breaker stands that commands decide about: its mode, with the reason, and its policy.
    package var standing: Set<String> = []

    /// The commands that the host has yet to tell.
    package var waiting = 0
    package var integrity = "ok"

    package init(_ name: String) { self.name = name }
  }

  package struct Event: Sendable {
    package enum Kind: Sendable {
      /// From closed to open.
      case opened

      /// From half-open to open.
      case reopened

      /// Open for another time, which a command has set.
      case extended

      /// From closed to half-open.
      case suspected

      /// A command to the state or to the mode.
      case command
      case other
    }

    package var kind: Kind
    package var name: String
    package var reason: String

    /// The other host that caused it; nil for this host.
    package var origin: String?

    /// When it happened, in milliseconds of the clock that all the hosts share.
    package var at: Int64

    /// Whether the host had the breaker open from then on, and not because of another host.
    package var isOwnOpening: Bool {
      origin == nil && [.opened, .reopened, .extended].contains(kind)
    }

    package init(_ kind: Kind, of name: String, _ reason: String, by origin: String?, at: Int64) {
      self.kind = kind
      self.name = name
      self.reason = reason
      self.origin = origin
      self.at = at
    }
  }
}
