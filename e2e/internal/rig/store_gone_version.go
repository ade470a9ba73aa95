package rig

// Answering counts the members that say how they are.
func (c *Cluster) Answering(hosts ...int) (n int) {
	c.T.Helper()
	for _, h := range hosts {
		if _, err := c.Status(c.T.Context(), h); err == nil {
			n++
		}
	}
	return n
}
