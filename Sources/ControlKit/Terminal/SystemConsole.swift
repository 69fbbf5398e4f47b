internal import CArguments
@unsafe @preconcurrency import Glibc

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

  /// The words of this process's command line, byte for byte, without the program's name.
  public static func processArguments() -> [[UInt8]] {
    let words = unsafe UnsafeBufferPointer(
      start: sb_arguments(), count: Int(sb_argument_count()))
    return unsafe words.dropFirst().map { word in unsafe word.map { unsafe bytes(of: $0) } ?? [] }
  }

  static func write(_ text: String, to descriptor: Int32) -> Writing {
    var text = text
    return text.withUTF8 { unsafe write(UnsafeRawBufferPointer($0), to: descriptor) }
  }

  private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Writing {
    var written = 0
    while written < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
      let count = unsafe Glibc.write(descriptor, rest.baseAddress, rest.count)
      if count >= 0 {
        written += count
      } else if errno == EPIPE {
        return .closed
      } else if errno == EAGAIN {
        // The descriptor is non-blocking, so wait until it takes more.
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = unsafe poll(&entry, 1, -1)
      } else if errno != EINTR {
        return .failed(errno)
      }
    }
    return .written
  }

  /// Whether there is a controlling terminal, where a command may ask for a password even if the
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
    var entry = unsafe environ
    while let line = unsafe entry.pointee {
      let parts = unsafe bytes(of: line).split(
        separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2, let name = String(validating: parts[0], as: UTF8.self),
        let value = String(validating: parts[1], as: UTF8.self)
      {
        result[name] = value
      }
      unsafe entry += 1
    }
    return result
  }

  private static func bytes(of text: UnsafeMutablePointer<CChar>) -> [UInt8] {
    unsafe UnsafeRawBufferPointer(start: text, count: strlen(text)).map { $0 }
  }
}
