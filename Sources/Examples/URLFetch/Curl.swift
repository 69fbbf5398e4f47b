@unsafe @preconcurrency import Glibc

/// The parts of a server's answer that matter to a breaker.
struct Answer {
  var status: Int

  /// The value of the answer's `Retry-After` header; nil if there is none.
  var retryAfter: String?

  /// Reads the status line and the headers of an answer; nil if the text has no status line.
  init?(headers: String) {
    let lines = headers.split(whereSeparator: \.isNewline)
    let words = lines.first?.split(separator: " ") ?? []
    guard words.count > 1, let status = Int(words[1]) else { return nil }
    self.status = status
    for line in lines.dropFirst() where line.lowercased().hasPrefix("retry-after:") {
      retryAfter = String(line.drop { $0 != ":" }.dropFirst())
    }
  }
}

/// The program `curl`, which is started for each fetch.
enum Curl {
  /// The errors of a fetch: `curl` is missing, the server was not reached, or it took too long.
  enum Failed: Error {
    /// `curl` could not be started; the value is the system's error number.
    case notStarted(Int32)
    case ended(code: Int32)
  }

  static func get(_ url: String) throws(Failed) -> Answer {
    var ends: [Int32] = [0, 0]
    guard unsafe pipe(&ends) == 0 else { throw .notStarted(errno) }
    defer { close(ends[0]) }
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
    // Of the pipe, the child needs only its standard output.
    unsafe posix_spawn_file_actions_addclose(&actions, ends[0])
    unsafe posix_spawn_file_actions_addclose(&actions, ends[1])

    // `curl` writes the headers to standard output and discards the body. No shell sees the URL,
    // and after `--` it cannot be mistaken for an option. Without a time limit a call could hang
    // forever.
    let arguments = [
      "curl", "-s", "--suppress-connect-headers", "--noproxy", "127.0.0.1", "--max-time", "10",
      "-D", "-", "-o", "/dev/null", "--", url,
    ]
    let words = unsafe arguments.map { unsafe strdup($0) }
    defer { unsafe words.forEach { unsafe free($0) } }
    var pid = pid_t()
    let error = unsafe posix_spawnp(&pid, "curl", &actions, nil, words + [nil], environ)
    close(ends[1])
    guard error == 0 else { throw .notStarted(error) }

    var output: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4_096)
    while case let count = unsafe read(ends[0], &chunk, chunk.count), count > 0 {
      output += chunk[..<count]
    }
    var status: Int32 = 0
    unsafe waitpid(pid, &status, 0)
    guard status == 0, let answer = Answer(headers: String(decoding: output, as: UTF8.self)) else {
      throw .ended(code: (status >> 8) & 0xFF)
    }
    return answer
  }
}
