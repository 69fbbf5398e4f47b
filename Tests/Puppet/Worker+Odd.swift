import Glibc
import TestShim
import TestSupport

/// What a program may do that makes it look odd from outside.
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
}
