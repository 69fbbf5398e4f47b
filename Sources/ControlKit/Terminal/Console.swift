/// The surroundings of a command, which a test can replace.
public struct Console: Sendable {
  /// The result of writing text.
  public enum Writing: Sendable, Hashable {
    /// The text was written.
    case written

    /// Nobody reads any more, which is not a failure: `cbctl history | head` ends like this.
    case closed

    /// The text could not be written; the number is an errno.
    case failed(Int32)
  }

  /// Writes data to standard output.
  public var output: @Sendable (String) -> Writing

  /// Writes messages to standard error.
  public var errorOutput: @Sendable (String) -> Writing

  /// Whether standard output is a terminal.
  public var isOutputTerminal: Bool

  /// The descriptor of standard output, to notice when nobody reads it any more; nil for none.
  public var outputDescriptor: Int32?

  /// Whether this process has a terminal, which a command that it runs may use.
  public var hasTerminal: Bool

  /// The number of columns of the terminal; nil if there is none.
  public var width: Int?

  /// The number of lines of the terminal; nil if there is none.
  public var height: Int?

  /// The environment variables that are text.
  public var environment: [String: String]

  /// Asks a yes-or-no question; nil if nobody could answer.
  public var ask: (@Sendable (String) -> Bool)?

  /// The signals that this process ignores but the commands that it runs must not.
  public var restoredSignals: [Int32]

  /// How long a person is made to wait for the answer of the host's relay.
  public var relayPatience = Duration.seconds(2)

  /// The name of the user who runs the command, for the history; nil if nobody should be named.
  public var user: @Sendable () -> String? = { nil }

  /// Creates a console; it is not a terminal unless you say so.
  public init(
    output: @escaping @Sendable (String) -> Writing,
    errorOutput: @escaping @Sendable (String) -> Writing,
    isOutputTerminal: Bool = false,
    outputDescriptor: Int32? = nil,
    hasTerminal: Bool = false,
    width: Int? = nil,
    height: Int? = nil,
    environment: [String: String] = [:],
    ask: (@Sendable (String) -> Bool)? = nil,
    restoredSignals: [Int32] = []
  ) {
    self.output = output
    self.errorOutput = errorOutput
    self.isOutputTerminal = isOutputTerminal
    self.outputDescriptor = outputDescriptor
    self.hasTerminal = hasTerminal
    self.width = width
    self.height = height
    self.environment = environment
    self.ask = ask
    self.restoredSignals = restoredSignals
  }

  /// Whether the output is a terminal that allows drawing.
  var canDraw: Bool {
    guard let kind = environment["TERM"], isOutputTerminal else { return false }
    return !kind.isEmpty && kind != "dumb"
  }

  /// Whether the output shows colours and the user wants them.
  var hasColors: Bool {
    guard isOutputTerminal, environment["TERM"] != "dumb" else { return false }
    return environment["NO_COLOR"].map(\.isEmpty) ?? true
  }
}
