/// The evidence of a phase of a fleet, once nothing was under way any more.
struct FleetEvidence: Sendable {
  /// How many other hosts must have a breaker open before a host suspects its own.
  var quorum: Int

  /// How old an opening may be that a suspicion was still about, in milliseconds.
  var longestOpening: Int64
  var hosts: [Host] = []
  var commands: [Command] = []
  var confirmations: [Confirmation] = []

  /// Texts that only the forger has written.
  var forgeries: [String] = []

  init(quorum: Int, longestOpening: Int64) {
    self.quorum = quorum
    self.longestOpening = longestOpening
  }

  /// A command with the scope of the fleet; its text is the reason that it was given.
  struct Command: Sendable {
    enum Ending: Sendable { case done, refused, unknown }

    var text: String
    var host: String
    var ending: Ending

    init(_ text: String, on host: String, _ ending: Ending) {
      self.text = text
      self.host = host
      self.ending = ending
    }
  }

  /// A statement of one host about another one, and whether it was true.
  struct Confirmation: Sendable {
    var command: String
    var host: String
    var listener: String

    /// Whether the host followed the command then, or a later one.
    var isTrue: Bool

    init(of command: String, by host: String, to listener: String, isTrue: Bool) {
      self.command = command
      self.host = host
      self.listener = listener
      self.isTrue = isTrue
    }
  }

  struct Host: Sendable {
    var name: String
    var events: [Event] = []

    /// The latest command about each aspect of each breaker, as lines.
    var registers: Set<String> = []

    /// How each breaker stands that commands decide about: its mode, with the reason, and its policy.
    var standing: Set<String> = []

    /// The commands that the host has yet to tell.
    var waiting = 0
    var integrity = "ok"

    init(_ name: String) { self.name = name }
  }

  struct Event: Sendable {
    enum Kind: Sendable {
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

    var kind: Kind
    var name: String
    var reason: String

    /// The other host that caused it; nil for this host.
    var origin: String?

    /// When it happened, in milliseconds of the clock that all the hosts share.
    var at: Int64

    /// Whether the host had the breaker open from then on, and not because of another host.
    var isOwnOpening: Bool {
      origin == nil && [.opened, .reopened, .extended].contains(kind)
    }

    init(_ kind: Kind, of name: String, _ reason: String, by origin: String?, at: Int64) {
      self.kind = kind
      self.name = name
      self.reason = reason
      self.origin = origin
      self.at = at
    }
  }
}
