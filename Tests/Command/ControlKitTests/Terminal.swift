import Glibc
import ProgramKit

@testable import ControlKit

/// A new terminal, with a program that leads the session on it.
final class Terminal {
  struct Failure: Error { var what: String }

  // POSIX_SPAWN_SETSID, TIOCSPTLCK and TIOCGPTN, which Swift does not import.
  private static let ownSession: Int32 = 0x80
  private static let setLock: UInt = 0x4004_5431
  private static let getNumber: UInt = 0x8004_5430

  /// How long something may take on a busy machine, in milliseconds.
  private static let patience: Int32 = 300_000

  private var keyboard: Int32
  private let pid: pid_t
  private var end: CommandCourse.End?

  /// The command under test, in the same directory as the test program.
  static let program: String = {
    var buffer = [CChar](repeating: 0, count: 4_096)
    let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
    let own = String(
      decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return "/" + own.split(separator: "/").dropLast().joined(separator: "/") + "/cbctl"
  }()

  init(_ words: [String]) throws {
    keyboard = unsafe open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    var lock: Int32 = 0
    var number: UInt32 = 0
    guard keyboard >= 0, unsafe ioctl(keyboard, Self.setLock, &lock) == 0,
      unsafe ioctl(keyboard, Self.getNumber, &number) == 0
    else { throw Failure(what: "no terminal") }
    let name = "/dev/pts/\(number)"
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    // The first terminal that a session leader opens becomes the terminal of the session.
    unsafe posix_spawn_file_actions_addopen(&actions, 0, name, O_RDWR, 0)
    unsafe posix_spawn_file_actions_adddup2(&actions, 0, 1)
    unsafe posix_spawn_file_actions_adddup2(&actions, 0, 2)
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe posix_spawnattr_setsigmask(&attributes, &signals)
    for number in [SIGINT, SIGQUIT, SIGHUP, SIGTERM] { unsafe sigaddset(&signals, number) }
    unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
    let flags = Self.ownSession | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
    unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
    let arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { unsafe arguments.forEach { unsafe free($0) } }
    var pid = pid_t()
    let code = unsafe posix_spawnp(&pid, words[0], &actions, &attributes, arguments, environ)
    self.pid = pid
    guard code == 0 else { throw Failure(what: "\(words[0]): \(SystemError.text(code))") }
  }

  deinit {
    hangUp()
    if end == nil {
      kill(-pid, SIGKILL)
      _ = waitForEnd()
    }
  }

  /// Waits until a process of this name runs in the session.
  func waitForCommand(_ name: String) throws {
    try waitUntil { programs().contains(name) }
  }

  /// Waits until a condition holds, and reads the output of the session meanwhile.
  func waitUntil(_ isSo: () -> Bool) throws {
    for _ in 0..<(Self.patience / 10) {
      readScreen()
      if isSo() { return }
      usleep(10_000)
    }
    throw Failure(what: "the session does not come that far: \(programs())")
  }

  /// The names of the programs in the session.
  func programs() -> [String] {
    guard let stream = unsafe opendir("/proc") else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      // The fields are pid, name in brackets, state, parent, group and session.
      guard Int32(name) != nil, let stat = Golden.read("/proc/\(name)/stat"),
        let open = stat.firstIndex(of: "("), let close = stat.lastIndex(of: ")")
      else { continue }
      let fields = stat[close...].split(separator: " ")
      if fields.count > 4, fields[4] == String(pid) {
        names.append(String(stat[stat.index(after: open)..<close]))
      }
    }
    return names
  }

  /// The output of the program that no test has waited for yet.
  private var unseen: [UInt8] = []

  /// Reads until a text is in the output, and answers the output up to the end of that text.
  @discardableResult
  func waitForOutput(_ text: String) throws -> String {
    let wanted = Array(text.utf8)
    // This is longer than any machine takes, even if much other output comes first.
    let end = ContinuousClock.now + .milliseconds(Self.patience)
    while true {
      if let range = unseen.firstRange(of: wanted) {
        defer { unseen.removeSubrange(..<range.upperBound) }
        return String(decoding: unseen[..<range.upperBound], as: UTF8.self)
      }
      var entry = pollfd(fd: keyboard, events: Int16(POLLIN), revents: 0)
      let ready = unsafe poll(&entry, 1, Self.patience)
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
        count = ready > 0 ? max(0, unsafe read(keyboard, buffer.baseAddress, buffer.count)) : 0
      }
      guard !bytes.isEmpty, ContinuousClock.now < end else {
        throw Failure(what: "no '\(text)' in '\(String(decoding: unseen, as: UTF8.self))'")
      }
      unseen += bytes
    }
  }

  /// Whether the terminal reads line by line and echoes keys, as a shell expects.
  var isUsual: Bool {
    var modes = termios()
    unsafe tcgetattr(keyboard, &modes)
    let usual = tcflag_t(ICANON | ECHO)
    return modes.c_lflag & usual == usual
  }

  func resize(columns: UInt16, lines: UInt16) {
    var size = winsize(ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
    _ = unsafe ioctl(keyboard, UInt(TIOCSWINSZ), &size)
  }

  /// Reads what the session has written, so that the terminal has room for more.
  private func readScreen() {
    var entry = pollfd(fd: keyboard, events: Int16(POLLIN), revents: 0)
    var bytes = [UInt8](repeating: 0, count: 4_096)
    while unsafe poll(&entry, 1, 0) > 0, entry.revents & Int16(POLLIN) != 0 {
      guard unsafe read(keyboard, &bytes, bytes.count) > 0 else { return }
    }
  }

  func type(_ keys: String) {
    let bytes = Array(keys.utf8)
    unsafe write(keyboard, bytes, bytes.count)
  }

  func hangUp() {
    if keyboard >= 0 { close(keyboard) }
    keyboard = -1
  }

  /// Waits for the program to end, kills it if it does not, and answers how it ended.
  func waitForEnd() -> CommandCourse.End {
    if let end { return end }
    var status: Int32 = 0
    var patience = Self.patience / 10
    while patience > 0, unsafe waitpid(pid, &status, WNOHANG) == 0 {
      usleep(10_000)
      patience -= 1
    }
    if patience == 0 {
      kill(-pid, SIGKILL)
      unsafe waitpid(pid, &status, 0)
    }
    let signal = status & 0x7F
    let result: CommandCourse.End =
      signal == 0 ? .exited((status >> 8) & 0xFF) : .killed(signal: signal)
    end = result
    return result
  }
}
