import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
  /// A trait for tests that fork while another thread of the same process runs Swift code.
  ///
  /// Under ThreadSanitizer, Swift takes the lock of a generic type at every use and not only at the
  /// first, so a child may find the lock held by a thread that the child does not have.
  static var forksBesideThreads: Self {
    .disabled(if: Threads.areWatched, "Swift takes locks there that no child lets go of")
  }

  /// A trait for tests whose forked children start threads.
  static var startsThreadsInChildren: Self {
    .disabled(if: Threads.areWatched, "ThreadSanitizer does not support threads in such a child")
  }
}
