import Glibc
import ProgramKit

/// A terminal to draw on, which gets its former state back at the end.
final class Screen {
  /// A request of the user or the system to the view.
  enum Wish: Sendable, Hashable {
    case key(Key)

    /// The content or the size of the terminal has changed.
    case drawAnew

    /// A signal told the process to end.
    case end(signal: Int32)

    /// The input was closed.
    case hungUp
  }

  private let input: Int32
  private let output: Int32
  private let signals: WakePipe
  private var keys = Keys()
  private var shown: Frame?

  /// Takes over the terminal; nil if there is none.
  init?(output: Int32) {
    guard isatty(output) == 1, let signals = WakePipe() else { return nil }
    let isTyped = isatty(STDIN_FILENO) == 1
    input = isTyped ? STDIN_FILENO : unsafe open("/dev/tty", O_RDONLY | O_CLOEXEC)
    guard input >= 0 else { return nil }
    self.output = output
    self.signals = signals
    TerminalGuard.begin(input: input, output: output, wake: signals.writing)
    TerminalGuard.enter()
  }

  /// Restores the terminal.
  func end() {
    TerminalGuard.end()
    if input != STDIN_FILENO { close(input) }
  }

  /// The descriptors that become readable when there is a request.
  var descriptors: [Int32] { [input, signals.reading] }

  /// The size in columns and lines; 80 by 24 if the terminal does not report it.
  var size: (width: Int, height: Int) {
    var size = winsize()
    guard unsafe ioctl(output, UInt(TIOCGWINSZ), &size) == 0 else { return (80, 24) }
    return (size.ws_col > 0 ? Int(size.ws_col) : 80, size.ws_row > 0 ? Int(size.ws_row) : 24)
  }

  /// Shows a frame; does nothing while the terminal takes no output, as after ^S.
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

  /// The requests behind the descriptors that have become ready.
  func wishes(_ ready: Set<Int32>) -> [Wish] {
    var wishes: [Wish] = []
    if ready.contains(signals.reading) { wishes += read(signals.reading).compactMap(heed) }
    if ready.contains(input) {
      let bytes = read(input)
      wishes += bytes.isEmpty ? [.hungUp] : keys.read(bytes).map { .key($0) }
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
