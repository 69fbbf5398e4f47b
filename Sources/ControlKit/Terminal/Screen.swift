import Glibc

/// A terminal to draw on, which is given back as it was.
final class Screen {
  /// What a person or the system asks of the view.
  enum Wish: Sendable, Hashable {
    case key(Key)

    /// The terminal shows something else, or has another size.
    case drawAnew

    /// The process was told to end.
    case end(signal: Int32)

    /// Nobody can type any more.
    case hungUp
  }

  private let input: Int32
  private let output: Int32
  private let signals: WakePipe
  private var keys = Keys()
  private var shown: Frame?

  /// Takes the terminal; nil if there is none to be had.
  init?(output: Int32) {
    guard isatty(output) == 1, let signals = WakePipe() else { return nil }
    let isTyped = isatty(STDIN_FILENO) == 1
    input = isTyped ? STDIN_FILENO : unsafe open("/dev/tty", O_RDONLY | O_CLOEXEC)
    guard input >= 0 else {
      signals.close()
      return nil
    }
    self.output = output
    self.signals = signals
    TerminalGuard.begin(input: input, output: output, wake: signals.writing)
    TerminalGuard.enter()
  }

  /// Gives the terminal back.
  func end() {
    TerminalGuard.end()
    if input != STDIN_FILENO { close(input) }
  }

  /// What wakes when somebody wishes something.
  var descriptors: [Int32] { [input, signals.reading] }

  /// The size in columns and lines; what a terminal does not tell is taken to be usual.
  var size: (width: Int, height: Int) {
    var size = winsize()
    guard unsafe ioctl(output, UInt(TIOCGWINSZ), &size) == 0 else { return (80, 24) }
    return (size.ws_col > 0 ? Int(size.ws_col) : 80, size.ws_row > 0 ? Int(size.ws_row) : 24)
  }

  /// Shows a frame; nothing while the terminal takes no output, as after ^S.
  func show(_ frame: Frame, _ write: (String) -> Void) {
    let text = frame.update(from: shown)
    guard !text.isEmpty, canWrite else { return }
    write(text)
    shown = frame
  }

  private var canWrite: Bool {
    var entry = pollfd(fd: output, events: Int16(POLLOUT), revents: 0)
    return unsafe poll(&entry, 1, 0) != 0
  }

  /// What is wished by what has become ready.
  func wishes(_ ready: Set<Int32>) -> [Wish] {
    var wishes: [Wish] = []
    if ready.contains(signals.reading) { wishes += read(signals.reading).compactMap(heed) }
    if ready.contains(input) {
      let bytes = read(input)
      wishes += bytes.isEmpty ? [.hungUp] : keys.take(bytes).map { .key($0) }
    }
    if wishes.contains(where: { $0 == .drawAnew || $0 == .key(.redraw) }) { shown = nil }
    return wishes
  }

  private func heed(_ signal: UInt8) -> Wish? {
    switch Int32(signal) {
    case SIGWINCH: break
    case SIGCONT: TerminalGuard.enter()
    case SIGTSTP:
      TerminalGuard.stop()
      TerminalGuard.enter()
    case let number: return .end(signal: number)
    }
    return .drawAnew
  }

  private func read(_ descriptor: Int32) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
      count = max(0, unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count))
    }
  }
}
