import SharedBreaker

/// An actor that beats while its thread is free.
actor Pulse {
  private var last = seconds()
  private var longest = 0.0

  /// The longest silence, in seconds, while a call is made on this actor.
  func longestSilence(
    of call: BlockedCall, on breaker: Breaker, of store: SharedStore, _ token: PermitToken?
  ) async -> Double {
    let heart = Task { while !Task.isCancelled { await beat() } }
    await beat()
    let course = Task {
      note()
      // Only the time of the call counts, not whether it failed.
      try? await call.make(on: breaker, of: store, token)
      note()
    }
    if call.isEndless {
      try? await Task.sleep(for: .seconds(2))
      course.cancel()
    }
    await course.value
    heart.cancel()
    await heart.value
    return longest
  }

  private func beat() async {
    note()
    try? await Task.sleep(for: .milliseconds(1))
  }

  private func note() {
    let now = seconds()
    longest = max(longest, now - last)
    last = now
  }
}
