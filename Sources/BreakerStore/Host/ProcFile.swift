internal import Glibc

/// Small files of the kernel, read whole.
enum ProcFile {
  static func bytes(_ path: String) -> [UInt8]? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while true {
      let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
        count = max(0, unsafe read(descriptor, buffer.baseAddress, buffer.count))
      }
      if chunk.isEmpty { break }
      bytes += chunk
    }
    return bytes
  }

  static func text(_ path: String) -> String? {
    bytes(path).map { bytes in
      String(decoding: bytes.last == newline ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }
  }

  fileprivate static let newline = UInt8(ascii: "\n")
}

/// What `/proc/PID/stat` says about a process (proc_pid_stat(5)).
///
/// It is read as bytes, because the file has the name that the process gives itself: in a text, the
/// last character of a name can merge with the parenthesis that follows it.
package struct ProcessStat {
  /// A letter, such as `R` for a running process.
  package let state: UInt8

  /// The number of threads that are not gone yet, the leader included.
  let threads: Int

  /// When the process started, in clock ticks since boot.
  let startTicks: UInt64

  package init?(at path: String) {
    guard let bytes = ProcFile.bytes(path) else { return nil }
    self.init(bytes)
  }

  package init?(_ bytes: [UInt8]) {
    // The name, in parentheses, may contain spaces and parentheses itself.
    guard let nameEnd = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
    let fields = bytes[(nameEnd + 1)...].split(separator: UInt8(ascii: " "))
    guard fields.count > 19, let state = fields[0].first,
      let threads = Int(String(decoding: fields[17], as: UTF8.self)),
      let startTicks = UInt64(String(decoding: fields[19], as: UTF8.self))
    else { return nil }
    self.state = state
    self.threads = threads
    self.startTicks = startTicks
  }

  /// Whether only the remains of the process are left.
  ///
  /// The leader of a process is shown as a zombie as soon as it has left by pthread_exit(3), though
  /// other threads may go on.
  package var isZombie: Bool { state == UInt8(ascii: "Z") && threads == 1 }

  /// Whether this is the moment in which an entry disappears, or goes over to another thread: one
  /// that calls execve(2) takes the leader's place.
  var isLeaving: Bool { state == UInt8(ascii: "X") || state == UInt8(ascii: "x") }
}

/// The line `NSpid` of `/proc/PID/status`: the process's number in each PID namespace, from the one
/// that `/proc` shows down to the process's own.
package enum NamespaceNumbers {
  /// How many numbers there are; nil if the kernel does not tell, as one without namespaces does not.
  package static func count(in status: [UInt8]) -> Int? {
    status.split(separator: ProcFile.newline)
      .first { $0.starts(with: "NSpid:".utf8) }
      .map { $0.split { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") }.count - 1 }
  }
}
