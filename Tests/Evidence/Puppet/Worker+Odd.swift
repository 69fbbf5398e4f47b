import Glibc
import SharedBreaker
import TestShim
import TestSupport

/// Acts of other code of a program on a process that uses breakers.
extension Worker {
  /// `leave-leader`: ends the first thread; another one answers from now on.
  func leaveLeader() -> String {
    let worker = unsafe Unmanaged.passRetained(self).toOpaque()
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Worker>.fromOpaque(context).takeRetainedValue().serve()
        exit(0)
      }, worker)
    guard code == 0 else { return "error no thread" }
    Wire.shared.put("ok")
    ts_leave_thread()
    return ""
  }

  /// Answers one command after the other until the test closes the pipe.
  func serve() {
    while let line = Wire.shared.line() { Wire.shared.put(answer(to: line)) }
  }

  /// `devour`: takes more and more memory.
  static func devour() -> String {
    var taken: [[UInt8]] = []
    for _ in 0..<512 { taken.append([UInt8](repeating: 1, count: 1 << 20)) }
    return "\(taken.count)"
  }

  /// `map-files COUNT`: maps its program many times, each as a file of its own, which the kernel closes one after the
  /// other when it ends the process.
  static func mapFiles(_ count: Int) -> String {
    for mapped in 0..<count {
      let file = unsafe open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
      defer { close(file) }
      let address = unsafe mmap(nil, 1, PROT_READ, MAP_PRIVATE, file, 0)
      if unsafe address == MAP_FAILED { return "\(mapped)" }
    }
    return "\(count)"
  }

  /// `rename BYTES`: takes a name that is made of bytes, given as numbers.
  func rename(_ words: [String]) -> String {
    let bytes = words.compactMap { UInt8($0) }
    let descriptor = unsafe open("/proc/self/comm", O_WRONLY | O_CLOEXEC)
    defer { close(descriptor) }
    let written = unsafe write(descriptor, bytes, bytes.count)
    return written == bytes.count ? "ok" : "error \(errno)"
  }

  /// `close-descriptors FILE...`: opens and closes files, and then closes every descriptor but the
  /// standard ones, as a program does that becomes a daemon.
  func closeDescriptors(_ files: [String]) -> String {
    for file in files { unsafe close(open(file, O_RDWR | O_CLOEXEC)) }
    for descriptor in Int32(3)..<1_024 { close(descriptor) }
    return "ok"
  }

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
