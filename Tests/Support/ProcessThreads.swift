internal import Glibc

/// The threads of this process, as the kernel lists them.
package enum ProcessThreads {
  /// The number of threads whose names begin with a text.
  package static func count(named name: String = "") -> Int {
    guard let directory = unsafe opendir("/proc/self/task") else { return 0 }
    defer { unsafe closedir(directory) }
    var count = 0
    while let entry = unsafe readdir(directory) {
      let thread = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if let its = Self.name(of: thread), its.hasPrefix(name) { count += 1 }
    }
    return count
  }

  /// The name of a thread; nil if it has ended meanwhile.
  private static func name(of thread: String) -> String? {
    let descriptor = unsafe open("/proc/self/task/\(thread)/comm", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
      count = max(0, unsafe read(descriptor, buffer.baseAddress, buffer.count))
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
