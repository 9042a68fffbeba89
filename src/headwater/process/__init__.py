"""What Spark lacks for a whole model of event time: watermarks, late data, and more to come."""
