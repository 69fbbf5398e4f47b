import Glibc

/// Sleeping; a signal that ends this process also ends it here.
enum Pause {
  static func sleep(for duration: Duration) {
    var asked = timespec(max(.zero, duration))
    var left = timespec()
    while unsafe nanosleep(&asked, &left) != 0, errno == EINTR { asked = left }
  }
}

extension timespec {
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
  }
}
