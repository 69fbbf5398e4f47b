/// What a command sees of the world around it, so that tests can stand in for a terminal.
public struct Console: Sendable {
  /// What became of text that was to be written.
  public enum Writing: Sendable, Hashable {
    /// It is written.
    case written

    /// Nobody reads any more, which is no failure: `cbctl history | head` ends like this.
    case closed

    /// It could not be written; the number is an errno.
    case failed(Int32)
  }

  /// Writes data to standard output.
  public var output: @Sendable (String) -> Writing

  /// Writes words to standard error.
  public var errorOutput: @Sendable (String) -> Writing

  /// Whether standard output is a terminal.
  public var isOutputTerminal: Bool

  /// The descriptor behind standard output, to find out when nobody reads it any more; nil for none.
  public var outputDescriptor: Int32?

  /// Whether this process belongs to a terminal, which a command that it runs may ask or answer.
  public var hasTerminal: Bool

  /// How many columns the terminal has; nil where there is none.
  public var width: Int?

  /// How many lines the terminal has; nil where there is none.
  public var height: Int?

  /// The environment variables, as far as they are text.
  public var environment: [String: String]

  /// Asks a question that is answered by yes or no; nil where nobody could answer.
  public var ask: (@Sendable (String) -> Bool)?

  /// The signals that this process ignores and that a command it runs must not.
  public var restoredSignals: [Int32]

  /// Describes a console; it is no terminal unless it says so.
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

  /// Whether output is a terminal that can be drawn on.
  var canDraw: Bool {
    guard let kind = environment["TERM"], isOutputTerminal else { return false }
    return !kind.isEmpty && kind != "dumb"
  }

  /// Whether colours would be seen and are wanted.
  var hasColors: Bool {
    guard isOutputTerminal, environment["TERM"] != "dumb" else { return false }
    return environment["NO_COLOR"].map(\.isEmpty) ?? true
  }
}
