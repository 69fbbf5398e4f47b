import ProgramKit

@unsafe @preconcurrency import Glibc

/// Starts commands that share the streams and the environment of this process.
enum ChildProcess {
  /// The errno of a command that could not be started.
  struct SpawnError: Error { var number: Int32 }

  /// Starts a command, found by PATH, in which no signal is blocked.
  ///
  /// In a group of its own, the command and what it starts can be signalled together. In this
  /// process's group, a terminal's ^C and ^Z reach it, and it may use the terminal.
  static func spawn(
    _ commandLine: [[UInt8]], inOwnGroup: Bool, restoredSignals: [Int32]
  ) throws(SpawnError) -> pid_t {
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var mask = sigset_t()
    unsafe sigemptyset(&mask)
    var restored = sigset_t()
    unsafe sigemptyset(&restored)
    for number in restoredSignals { unsafe sigaddset(&restored, number) }
    unsafe posix_spawnattr_setsigmask(&attributes, &mask)
    unsafe posix_spawnattr_setsigdefault(&attributes, &restored)
    var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
    if inOwnGroup { flags |= POSIX_SPAWN_SETPGROUP }
    unsafe posix_spawnattr_setpgroup(&attributes, 0)
    unsafe posix_spawnattr_setflags(&attributes, Int16(flags))

    let words = unsafe commandLine.map { word in
      unsafe (word + [0]).withUnsafeBytes { bytes in
        unsafe bytes.baseAddress.flatMap { unsafe strdup($0.assumingMemoryBound(to: CChar.self)) }
      }
    }
    defer { unsafe words.forEach { unsafe free($0) } }
    var pid = pid_t()
    guard let program = unsafe words.first ?? nil, unsafe program.pointee != 0 else {
      // An empty name would match a directory of PATH.
      throw SpawnError(number: ENOENT)
    }
    let number = unsafe posix_spawnp(&pid, program, nil, &attributes, words + [nil], environ)
    if number == ENOEXEC, let line = BareScript.commandLine(commandLine) {
      return try spawn(line, inOwnGroup: inOwnGroup, restoredSignals: restoredSignals)
    }
    if number != 0 { throw SpawnError(number: number) }
    return pid
  }
}

extension SystemError {
  /// Whether an errno means that there is no such program, for which shells use 127.
  static func isNotFound(_ number: Int32) -> Bool { number == ENOENT || number == ENOTDIR }
}
