import BreakerStore
import TestSupport

/// Work that does not end until the test releases it, even if it is cancelled.
final class HungWork: Sendable {
  private struct Course {
    var isReleased = false
    var hanging: [CheckedContinuation<Void, Never>] = []
    var starts = 0
    var ends = 0
  }

  private let course = Guarded(Course())

  func hang() async {
    await withCheckedContinuation { continuation in
      let isReleased = course.withLock {
        $0.starts += 1
        if !$0.isReleased { $0.hanging.append(continuation) }
        return $0.isReleased
      }
      if isReleased { continuation.resume() }
    }
    course.withLock { $0.ends += 1 }
  }

  func release() {
    let hanging = course.withLock { course in
      course.isReleased = true
      defer { course.hanging = [] }
      return course.hanging
    }
    for continuation in hanging { continuation.resume() }
  }

  func untilItHangs() async {
    await until { course.withLock { course in course.starts > 0 } }
  }

  func untilItEnded() async {
    await until { course.withLock { course in course.ends == course.starts } }
  }
}
