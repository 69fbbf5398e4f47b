import Glibc

/// Waits for the first of several things, and looks for none of them in between.
struct Waiting {
  /// What a wait has ended with.
  struct End: Sendable {
    /// The descriptors that can be read from.
    var ready: Set<Int32> = []

    /// Whether nobody reads the output any more.
    var isOutputClosed = false
  }

  /// The descriptors that are waited for.
  var descriptors: [Int32]

  /// Where the output goes; nil if its end is of no interest.
  var output: Int32?

  /// Timers stand still while the host is asleep, so no wait trusts one for longer than this.
  private static let longest = Duration.seconds(60)

  /// Waits until something can be read, the output is closed, or the time is over.
  ///
  /// It may end early with nothing.
  func wait(atMost time: Duration? = nil) -> End {
    var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    // A pipe without a reader is told of without being asked for.
    if let output { entries.append(pollfd(fd: output, events: 0, revents: 0)) }
    let milliseconds = time.map { SpokenDuration.milliseconds(min($0, Self.longest)) }
    let count = unsafe poll(
      &entries, nfds_t(entries.count), milliseconds.map { Int32($0) } ?? -1)
    var end = End()
    guard count > 0 else { return end }
    for entry in entries where entry.revents != 0 {
      if entry.events == 0 { end.isOutputClosed = true } else { end.ready.insert(entry.fd) }
    }
    return end
  }
}
