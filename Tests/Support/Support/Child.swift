package import Glibc
internal import TestShim

/// A process that this one has started; it is killed and reaped at the latest when it is released.
package final class Child {
  package let pid: pid_t
  private let input: Int32
  private let output: Int32
  private var buffer: [UInt8] = []
  private var status: Int32?

  /// How long to wait for an answer before the test fails.
  private let patienceMilliseconds: Int32

  private static let ignoringBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

  /// Starts a program; with `hasWords`, standard error is part of its output.
  ///
  /// It inherits nothing but its standard streams, or else it could keep a lock that the program
  /// which runs the tests holds.
  package init(
    _ program: String, _ arguments: [String], patienceMilliseconds: Int32 = 300_000,
    hasWords: Bool = false
  ) throws {
    self.patienceMilliseconds = patienceMilliseconds
    _ = Self.ignoringBrokenPipes
    let (childInput, input) = try Self.pipe()
    let (output, childOutput) = try Self.pipe()
    defer {
      close(childInput)
      close(childOutput)
    }
    self.input = input
    self.output = output
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, childInput, 0)
    unsafe posix_spawn_file_actions_adddup2(&actions, childOutput, 1)
    if hasWords { unsafe posix_spawn_file_actions_adddup2(&actions, childOutput, 2) }
    unsafe ts_inherit_nothing(&actions)
    // Swift's threads block signals, and a program begins with the mask of the thread that starts it.
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    unsafe sigemptyset(&none)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var words = unsafe ([program] + arguments).map { unsafe strdup($0) } + [nil]
    defer { unsafe words.forEach { unsafe free($0) } }
    var pid: pid_t = 0
    let code = unsafe posix_spawn(&pid, program, &actions, &attributes, &words, environ)
    self.pid = pid
    guard code == 0 else {
      status = code
      throw SupportError("posix_spawn \(program)", code)
    }
  }

  deinit {
    if status == nil { kill() }
    close(input)
    close(output)
  }

  /// Creates a pipe whose ends are closed in other children; the dup opens the ends that are passed
  /// on.
  private static func pipe() throws -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [-1, -1]
    let code = unsafe ts_pipe(&ends)
    guard code == 0 else { throw SupportError("pipe2", code) }
    return (ends[0], ends[1])
  }

  package func send(_ line: String) throws {
    let bytes = Array((line + "\n").utf8)
    let written = unsafe write(input, bytes, bytes.count)
    guard written == bytes.count else { throw SupportError("write to process \(pid)", errno) }
  }

  /// The next line of the process's output, or nil if there is none left.
  package func line() throws -> String? {
    while true {
      if let end = buffer.firstIndex(of: 0x0A) {
        defer { buffer.removeFirst(end + 1) }
        return String(decoding: buffer[..<end], as: UTF8.self)
      }
      guard try readMore() else { return nil }
    }
  }

  /// The rest of the process's output, once it has ended.
  package func rest() throws -> String {
    while try readMore() {}
    defer { buffer = [] }
    return String(decoding: buffer, as: UTF8.self)
  }

  /// Waits until a number of bytes have been written; they stay in the buffer.
  package func waitForOutput(_ count: Int) throws {
    while buffer.count < count {
      guard try readMore() else { throw SupportError("process \(pid) has ended early") }
    }
  }

  private func readMore() throws -> Bool {
    var poll = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
    let ready = unsafe Glibc.poll(&poll, 1, patienceMilliseconds)
    guard ready > 0 else {
      throw SupportError(ready == 0 ? "process \(pid) does not answer" : "poll fails")
    }
    let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
      count = max(0, unsafe read(output, buffer.baseAddress, buffer.count))
    }
    buffer += chunk
    return !chunk.isEmpty
  }

  /// Ends the process at once, as `kill -9` does, and waits until it is gone.
  package func kill() {
    guard status == nil else { return }
    Glibc.kill(pid, SIGKILL)
    _ = waitForEnd()
  }

  /// Kills the process without reaping it, like a parent that never waits for its children.
  package func killAndLeaveZombie() {
    Glibc.kill(pid, SIGKILL)
    var information = unsafe siginfo_t()
    while unsafe waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
  }

  /// Stops the process where it is, and waits until it has stopped.
  package func stop() {
    Glibc.kill(pid, SIGSTOP)
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, WUNTRACED) < 0, errno == EINTR {}
  }

  /// Waits until the process has stopped by itself; false if it has ended instead.
  package func waitForStop() -> Bool {
    var raw: Int32 = 0
    while unsafe waitpid(pid, &raw, WUNTRACED) < 0, errno == EINTR {}
    if raw & 0xFF == 0x7F { return true }
    _ = noteEnd(raw)
    return false
  }

  package func resume() { Glibc.kill(pid, SIGCONT) }

  /// Waits for the process to end; returns its exit code, or the negative number of its signal.
  @discardableResult
  package func waitForEnd() -> Int32 {
    if let status { return status }
    var raw: Int32 = 0
    while unsafe waitpid(pid, &raw, 0) < 0, errno == EINTR {}
    return noteEnd(raw)
  }

  /// Whether the process has ended by itself.
  package var hasEnded: Bool {
    var raw: Int32 = 0
    if status == nil, unsafe waitpid(pid, &raw, WNOHANG) == pid { _ = noteEnd(raw) }
    return status != nil
  }

  private func noteEnd(_ raw: Int32) -> Int32 {
    let signal = raw & 0x7F
    let result = signal == 0 ? (raw >> 8) & 0xFF : -signal
    status = result
    return result
  }

  /// Runs a line of a shell to its end, and returns its exit code, or the negative number of its signal.
  ///
  /// Meanwhile `system` would ignore the interrupt in this process, and so would what other tests start.
  @discardableResult package static func shell(_ line: String) -> Int32 {
    guard let child = try? Child("/bin/sh", ["-c", line], patienceMilliseconds: -1) else {
      return 127
    }
    _ = try? child.rest()
    return child.waitForEnd()
  }

  /// Runs a program to its end, and returns its output.
  package static func run(
    _ program: String, _ arguments: [String], patienceMilliseconds: Int32 = 300_000
  ) throws -> String {
    let child = try Child(program, arguments, patienceMilliseconds: patienceMilliseconds)
    let output = try child.rest()
    let code = child.waitForEnd()
    guard code == 0 else { throw SupportError("\(program) ended with \(code): \(output)") }
    return output
  }
}

/// The programs that were built with the tests.
package enum BuiltProducts {
  /// Returns the path of a program, which lies beside the test program.
  package static func path(of program: String) -> String {
    var path = [CChar](repeating: 0, count: 4_096)
    let length = unsafe readlink("/proc/self/exe", &path, path.count - 1)
    let own = path[..<max(0, length)].map { UInt8(bitPattern: $0) }
    let directory = String(decoding: own, as: UTF8.self).split(separator: "/").dropLast()
    return "/" + (directory + [program[...]]).joined(separator: "/")
  }
}
