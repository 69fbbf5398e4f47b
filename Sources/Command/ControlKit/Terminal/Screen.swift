import Glibc
import ProgramKit

/// A terminal to draw on, whose former state is restored at the end.
final class Screen {
  /// A request of the user or the system to the view.
  enum Wish: Sendable, Hashable {
    case key(Key)

    /// The content or the size of the terminal has changed.
    case redraw

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

  /// Takes control of the terminal; nil if there is none.
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

  /// Shows a frame; does nothing while the terminal accepts no output, as after ^S.
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
    if wishes.contains(where: { $0 == .redraw || $0 == .key(.redraw) }) { shown = nil }
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
    return .redraw
  }

  private func read(_ descriptor: Int32) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
      count = max(0, unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count))
    }
  }
}

/// The content of a screen, line by line.
struct Frame: Sendable, Hashable {
  var lines: [String] = []

  /// The output that turns an earlier frame into this one, with only the lines that differ.
  ///
  /// Without an earlier frame it writes every line, whatever the screen shows.
  func update(from earlier: Frame?) -> String {
    // Erase from the top, because there is no line below a frame that fills the screen.
    var text = earlier == nil ? Self.position(0) + "\u{1b}[J" : ""
    for (index, line) in lines.enumerated() where earlier?.line(index) != line {
      // Erase first, because after a line of full width the cursor is on its last character.
      text += Self.position(index) + "\u{1b}[K" + line
    }
    if let earlier, earlier.lines.count > lines.count {
      text += Self.position(lines.count) + "\u{1b}[J"
    }
    // A terminal that knows these sequences shows the whole update at once; others ignore them.
    return text.isEmpty ? "" : "\u{1b}[?2026h\(text)\u{1b}[?2026l"
  }

  private func line(_ index: Int) -> String? { index < lines.count ? lines[index] : nil }

  private static func position(_ index: Int) -> String { "\u{1b}[\(index + 1);1H" }
}

/// The keys of a live view.
enum Key: Sendable, Hashable {
  case quit, redraw, up, down, pageUp, pageDown, top, bottom
}

/// Turns the bytes that a terminal sends into keys; a key's bytes can arrive in pieces.
struct Keys: Sendable {
  private var rest: [UInt8] = []

  private static let escape: UInt8 = 0x1B
  private static let letters: [UInt8: Key] = [
    UInt8(ascii: "q"): .quit, UInt8(ascii: "Q"): .quit, 0x0C: .redraw,
    UInt8(ascii: "k"): .up, UInt8(ascii: "j"): .down, UInt8(ascii: "\n"): .down,
    UInt8(ascii: "\r"): .down, UInt8(ascii: "b"): .pageUp, UInt8(ascii: "f"): .pageDown,
    UInt8(ascii: " "): .pageDown, UInt8(ascii: "g"): .top, UInt8(ascii: "G"): .bottom,
  ]
  private static let sequences: [String: Key] = [
    "A": .up, "B": .down, "H": .top, "F": .bottom, "5~": .pageUp, "6~": .pageDown,
    "1~": .top, "7~": .top, "4~": .bottom, "8~": .bottom,
  ]

  /// Returns the keys that the bytes complete, and skips sequences without a meaning.
  mutating func read(_ bytes: [UInt8]) -> [Key] {
    rest += bytes
    var keys: [Key] = []
    while let first = rest.first {
      guard first == Self.escape else {
        if let key = Self.letters[first] { keys.append(key) }
        rest.removeFirst()
        continue
      }
      guard let length = sequenceLength() else { break }
      let parameters = String(decoding: rest[..<length].dropFirst(2), as: UTF8.self)
      if let key = Self.sequences[parameters] { keys.append(key) }
      rest.removeFirst(length)
    }
    return keys
  }

  /// The length of the sequence at the beginning; nil if it is not complete.
  private func sequenceLength() -> Int? {
    guard rest.count > 1 else { return nil }
    let isSequence = rest[1] == UInt8(ascii: "[") || rest[1] == UInt8(ascii: "O")
    guard isSequence else { return 1 }
    return rest.indices.dropFirst(2).first { (0x40...0x7E).contains(rest[$0]) }.map { $0 + 1 }
  }
}
