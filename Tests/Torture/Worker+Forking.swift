import Glibc
import SharedBreaker
import TestShim
import TestSupport

extension Worker {
  /// Forks a child that makes some calls, whatever the other threads of this process are doing.
  func fork(_ random: SeededRandom) {
    let child = ts_fork()
    guard child == 0 else {
      var status: Int32 = 0
      while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
      precondition(status == 0, "the child of a fork ended with status \(status)")
      return
    }
    ts_limit(20)
    var random = random
    do {
      try scribe.begin("\(journal).\(getpid())")
    } catch {
      _exit(1)
    }
    for _ in 0..<random.number(1...10) {
      call(random.number(0...breakers.count - 1), &random, marks: false)
    }
    store.close()
    _exit(0)
  }
}
