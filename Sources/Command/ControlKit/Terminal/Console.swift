import ProgramKit

@unsafe @preconcurrency import Glibc

/// The surroundings of a command, which a test can replace.
public struct Console: Sendable {
  /// The result of writing text.
  public enum Writing: Sendable, Hashable {
    /// The text was written.
    case written

    /// The reader is gone, which is not a failure: `cbctl history | head` ends like this.
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

  /// The descriptor of standard output, to notice when its reader is gone; nil for none.
  public var outputDescriptor: Int32?

  /// Whether this process has a terminal, which a command that it runs may use.
  public var hasTerminal: Bool

  /// The number of columns of the terminal; nil if there is none.
  public var width: Int?

  /// The number of lines of the terminal; nil if there is none.
  public var height: Int?

  /// The environment variables, of which cbctl reads only a few.
  public var environment: [String: String]

  /// Asks a yes-or-no question; nil if there is no user to answer.
  public var ask: (@Sendable (String) -> Bool)?

  /// The signals that this process ignores but the commands that it runs must not.
  public var restoredSignals: [Int32]

  /// How long a command for people waits for the answer of the host's relay.
  public var relayPatience = Duration.seconds(2)

  /// How long a command to a fleet waits to see whether it has gone out.
  public var publishPatience = Duration.milliseconds(250)

  /// The name of the user who runs the command, for the history; nil to name no user.
  public var user: @Sendable () -> String? = { nil }

  /// Creates a console, which is not a terminal unless you say so.
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

extension Console {
  /// The console of this process.
  ///
  /// From now on the process ignores SIGPIPE, so that a reader may close the pipe, and SIGXFSZ, so
  /// that a store that may not grow is an ordinary error.
  public static func system() -> Console {
    let ignoredAnew = [SIGPIPE, SIGXFSZ].filter { number in
      let previous = signal(number, SIG_IGN)
      return unsafe unsafeBitCast(previous, to: Int.self) == 0
    }
    let isTerminal = isatty(STDOUT_FILENO) == 1
    let size = isTerminal ? terminalSize() : winsize()
    let environment = processEnvironment()
    var console = Console(
      output: { write($0, to: STDOUT_FILENO) },
      errorOutput: { write($0, to: STDERR_FILENO) },
      isOutputTerminal: isTerminal,
      outputDescriptor: STDOUT_FILENO,
      hasTerminal: hasTerminal(),
      width: size.ws_col > 0 ? Int(size.ws_col) : nil,
      height: size.ws_row > 0 ? Int(size.ws_row) : nil,
      environment: environment,
      ask: systemAsk(),
      restoredSignals: ignoredAnew)
    console.user = { HostUser.current(environment).words }
    return console
  }

  static func write(_ text: String, to descriptor: Int32) -> Writing {
    switch ThisProcess.write(text, to: descriptor, waitsForRoom: true) {
    case nil: .written
    case EPIPE?: .closed
    case let number?: .failed(number)
    }
  }

  /// Asks on standard error and reads the answer from standard input, if both are a terminal.
  private static func systemAsk() -> (@Sendable (String) -> Bool)? {
    guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else { return nil }
    return { question in
      _ = write(question, to: STDERR_FILENO)
      return ["y", "yes"].contains(readLine()?.lowercased())
    }
  }

  /// Whether there is a controlling terminal, on which a command may ask for a password even if the
  /// standard streams go elsewhere.
  static func hasTerminal() -> Bool {
    let descriptor = unsafe open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
  }

  /// The size; zero if the terminal does not report it.
  private static func terminalSize() -> winsize {
    var size = winsize()
    _ = unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size)
    return size
  }

  private static func processEnvironment() -> [String: String] {
    var result: [String: String] = [:]
    // Copying all variables would take longer than reading the command line.
    for name in ["HOME", "NO_COLOR", "SHARED_BREAKER_STORE", "SUDO_USER", "TERM"] {
      if let value = unsafe getenv(name) { result[name] = unsafe String(validatingCString: value) }
    }
    return result
  }
}
