import Glibc
import SharedBreaker
import TestSupport

/// Other code of the process that reads the files of the store, as a backup or a checksum does.
extension Worker {
  /// `meddle SUFFIX...`: opens, reads and closes files of the store in a thread of its own until the
  /// process ends; `file` stands for the store's file itself.
  func meddle(_ words: [String]) -> String {
    let paths = words.map { store.path + ($0 == "file" ? "" : $0) }
    Threads().start {
      var bytes = [UInt8](repeating: 0, count: 4_096)
      while true {
        for path in paths {
          let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
          guard descriptor >= 0 else { continue }
          _ = unsafe read(descriptor, &bytes, bytes.count)
          close(descriptor)
        }
      }
    }
    return "ok"
  }
}
